// Loaded ahead of all else, shows a process PRETENDED_PROCESSORS processors: its runtimes start as many threads, on
// those that there are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count(void) { return atoi(getenv("PRETENDED_PROCESSORS")); }

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t* set) {
  (void)pid;
  memset(set, 0, size);
  for (int i = 0; i < count() && i < (int)size * 8; ++i) CPU_SET_S(i, size, set);
  return 0;
}

int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t* set) {
  (void)thread;
  return sched_getaffinity(0, size, set);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t* set) {
  (void)pid, (void)size, (void)set;
  return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* set) {
  (void)thread, (void)size, (void)set;
  return 0;
}

int get_nprocs(void) { return count(); }
int get_nprocs_conf(void) { return count(); }

long sysconf(int name) {
  static long (*next)(int);
  if (!next) next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? count() : next(name);
}
