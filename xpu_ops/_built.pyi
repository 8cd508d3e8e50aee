# Written by the build (CMakeLists.txt).
RELEASES: tuple[str, ...]  # the minor releases of torch that the sources serve, oldest first
VERSION: str
