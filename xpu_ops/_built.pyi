# Written by the build (CMakeLists.txt).
TORCH: str  # the minor release of torch that the extension was built for
RELEASES: tuple[str, ...]  # those that this version has wheels for
VERSION: str
