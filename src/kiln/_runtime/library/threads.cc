// Parallel loops of exported libraries that have threads: each context has those that it was given,
// and the calling thread. Chunks are those of kiln's thread pool, and so are the bits of results.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "abi/pool.h"
#include "library/context.h"

namespace kiln {
namespace {

constexpr int32_t kMostThreads = 128;
constexpr int64_t kLine = 64;
// How often a thread polls before it sleeps: some 50 microseconds.
constexpr int kLooks = 2000;

// A thread inside a parallel loop does not start another one.
__thread bool is_inside = false;

// Of any context: products that a BLAS computes are divided among this many threads.
std::atomic<int32_t> most_threads{1};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Job {
  const Call* call;
  ParallelBody body;
  void* context;
  int64_t count, grain, chunks;
};

struct Worker {
  Pool* pool;
  pthread_t thread;
  Call call;
  Fault fault;
  ScratchBlocks scratch;
};

}  // namespace

// One job at a time: a context runs one call at a time. Every worker takes part in every job.
class Pool {
 public:
  // The pool of a context with this many threads, the calling one included, each with this much
  // scratch memory; null if the system refuses.
  static Pool* make(int32_t threads, size_t scratch_bytes) {
    Pool* made = static_cast<Pool*>(
        std::calloc(1, sizeof(Pool) + static_cast<size_t>(threads - 1) * sizeof(Worker)));
    if (made == nullptr) return nullptr;
    pthread_mutex_init(&made->mutex_, nullptr);
    pthread_cond_init(&made->has_work_, nullptr);
    pthread_cond_init(&made->is_done_, nullptr);
    if (made->start(threads - 1, scratch_bytes)) return made;
    destroy(made);
    return nullptr;
  }

  static void destroy(Pool* pool) {
    pthread_mutex_lock(&pool->mutex_);
    pool->ends_ = true;
    pool->epoch_.fetch_add(1);
    pthread_cond_broadcast(&pool->has_work_);
    pthread_mutex_unlock(&pool->mutex_);
    for (int32_t i = 0; i < pool->count_; ++i) {
      pthread_join(pool->workers_[i].thread, nullptr);
      for (char* block : pool->workers_[i].scratch.memory) std::free(block);
      std::free(pool->workers_[i].scratch.reserved);
    }
    pthread_cond_destroy(&pool->is_done_);
    pthread_cond_destroy(&pool->has_work_);
    pthread_mutex_destroy(&pool->mutex_);
    std::free(pool);
  }

  int32_t threads() const { return count_ + 1; }

  int32_t run(const Job& job, Call* call) {
    job_ = job;
    status_ = kDone;
    next_.store(0, std::memory_order_relaxed);
    failed_.store(job.chunks, std::memory_order_relaxed);
    running_.store(count_, std::memory_order_relaxed);
    pthread_mutex_lock(&mutex_);
    epoch_.fetch_add(1);
    if (asleep_ > 0) pthread_cond_broadcast(&has_work_);
    pthread_mutex_unlock(&mutex_);
    work(call);
    wait_until_done();
    return status_;
  }

 private:
  bool start(int32_t wanted, size_t scratch_bytes) {
    // A thread inherits the signal mask of the thread that creates it: signals are the caller's.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; count_ < wanted; ++count_) {
      Worker& worker = workers_[count_];
      worker.pool = this;
      if (scratch_bytes != 0) {
        worker.scratch.reserved = static_cast<char*>(std::aligned_alloc(kLine, scratch_bytes));
        if (worker.scratch.reserved == nullptr) break;
        worker.scratch.reserved_bytes = scratch_bytes;
      }
      if (pthread_create(&worker.thread, nullptr, help, &worker) == 0) continue;
      std::free(worker.scratch.reserved);
      break;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return count_ == wanted;
  }

  static void* help(void* given) {
    Worker& worker = *static_cast<Worker*>(given);
    scratch_blocks = &worker.scratch;
    worker.pool->help_until_the_end(worker);
    return nullptr;
  }

  void help_until_the_end(Worker& worker) {
    for (uint64_t seen = 0;; ++seen) {
      wait_for_work(seen);
      if (ends_) return;
      worker.call = *job_.call;
      worker.call.fault = &worker.fault;
      work(&worker.call);
      if (running_.fetch_sub(1) > 1) continue;
      pthread_mutex_lock(&mutex_);
      pthread_cond_signal(&is_done_);
      pthread_mutex_unlock(&mutex_);
    }
  }

  void wait_for_work(uint64_t seen) {
    for (int look = 0; look < kLooks; ++look) {
      if (epoch_.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    pthread_mutex_lock(&mutex_);
    ++asleep_;
    while (epoch_.load() == seen) pthread_cond_wait(&has_work_, &mutex_);
    --asleep_;
    pthread_mutex_unlock(&mutex_);
  }

  void wait_until_done() {
    for (int look = 0; look < kLooks; ++look) {
      if (running_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    pthread_mutex_lock(&mutex_);
    while (running_.load() != 0) pthread_cond_wait(&is_done_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }

  // Runs chunks until none is left. Of several that fail the first counts: those before it still
  // run.
  void work(Call* call) {
    is_inside = true;
    for (;;) {
      const int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= job_.chunks) break;
      if (chunk >= failed_.load(std::memory_order_relaxed)) continue;
      const int64_t begin = chunk * job_.grain;
      const int32_t status =
          job_.body(call, job_.context, begin, std::min(job_.count, begin + job_.grain));
      if (status == kDone) continue;
      pthread_mutex_lock(&mutex_);
      if (chunk < failed_.load(std::memory_order_relaxed)) {
        failed_.store(chunk, std::memory_order_relaxed);
        status_ = status;
      }
      pthread_mutex_unlock(&mutex_);
    }
    is_inside = false;
  }

  pthread_mutex_t mutex_;
  pthread_cond_t has_work_, is_done_;
  std::atomic<uint64_t> epoch_;  // which job it is
  std::atomic<int64_t> next_, failed_;
  std::atomic<int32_t> running_;  // workers that have not finished the job
  int32_t asleep_, count_, status_;
  bool ends_;
  Job job_;
  Worker workers_[];
};

int32_t threads_of(Call* call) {
  return call == nullptr || call->pool == nullptr || is_inside ? 1 : call->pool->threads();
}

int32_t threads_in_use() { return is_inside ? 1 : most_threads.load(std::memory_order_relaxed); }

int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                        int64_t grain) {
  const Chunks chunks(count, grain);
  const Job job{call, body, context, count, chunks.grain, chunks.count};
  if (job.chunks > 1 && threads_of(call) > 1) return call->pool->run(job, call);
  return run_in_order(call, body, context, count, chunks.grain);
}

void release_threads(Context* context) {
  if (context->call.pool != nullptr) Pool::destroy(context->call.pool);
  context->call.pool = nullptr;
}

// Gives a context this many threads, the calling one included, each with `scratch_bytes` of scratch
// memory for kernels; if that is negative, it depends on sizes, and is at most the workspace.
extern "C" int32_t kiln_library_set_threads(Context* context, int32_t threads,
                                            int64_t scratch_bytes) {
  if (context == nullptr) return kNoContext;
  threads = std::clamp(threads, 1, kMostThreads);
  release_threads(context);
  if (threads > 1) {
    if (scratch_bytes < 0) scratch_bytes = context->workspace_bytes;
    scratch_bytes = (scratch_bytes + kLine - 1) / kLine * kLine;
    context->call.pool = Pool::make(threads, static_cast<size_t>(scratch_bytes));
    if (context->call.pool == nullptr) return kOutOfMemory;
  }
  int32_t most = most_threads.load();
  while (most < threads && !most_threads.compare_exchange_weak(most, threads)) continue;
  return kDone;
}

}  // namespace kiln
