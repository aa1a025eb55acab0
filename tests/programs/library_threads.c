/* A thousand calls from eight threads at once, each with a context and threads of its own; the same
 * bits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

enum { kThreads = 8, kCalls = 125, kSize = 40 };

static float x[kSize * kSize], first[kSize * kSize];

static void *run(void *number) {
  float *out = malloc(sizeof first);
  work_context *context = work_create(work_workspace_size());
  long failures = out == NULL || context == NULL;
  failures += work_set_threads(context, 3) != WORK_OK;
  for (int call = 0; failures == 0 && call < kCalls; ++call) {
    memset(out, 0, sizeof first);
    failures += work(context, x, out) != WORK_OK;
    failures += memcmp(out, first, sizeof first) != 0;
  }
  work_destroy(context);
  free(out);
  *(long *)number = failures;
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  long failures[kThreads], all = 0;
  for (int i = 0; i < kSize * kSize; ++i) x[i] = (float)(i % 97) / 97;
  work_context *context = work_create(work_workspace_size());
  if (context == NULL || work(context, x, first) != WORK_OK) return 1;
  work_destroy(context);
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, run, &failures[i]) != 0) return 1;
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    all += failures[i];
  }
  printf("%ld failures\n", all);
  return all != 0;
}
