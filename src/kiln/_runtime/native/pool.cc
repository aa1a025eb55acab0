#include "abi/pool.h"

#include <pthread.h>
#include <signal.h>
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <mutex>

#include "abi/symbols.h"
#include "machine/processors.h"
#include "native/interpreter.h"
#include "state/state.h"

namespace kiln {
namespace {

// How often a worker polls for work before it sleeps: about 50 microseconds, the usual time between
// two parallel loops of a program. Waking a worker costs as much as a small loop.
constexpr int kLooks = 2000;

constexpr int32_t kMostThreads = 128;
constexpr int64_t kMostChunks = int64_t{1} << 31;

// A thread inside a parallel loop does not start another one.
thread_local bool is_inside = false;

// The number of threads that calls use; 0: the number of processors.
std::atomic<int32_t> chosen_threads{0};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Where a worker that sleeps will run. On few processors that are busy Linux may wake it on the one
// of the thread that wakes it, although another is idle, and leave it there for milliseconds: so it
// may not run there until it is awake. With many there is always another processor to find.
class Placement {
 public:
  static constexpr int kMostWorkers = 3;

  // Called by the worker.
  void begin() {
#ifdef __linux__
    thread_ = static_cast<pid_t>(syscall(SYS_gettid));
#endif
  }
  void sleep() { is_asleep_ = true; }
  void awake() {
    is_asleep_ = false;
#ifdef __linux__
    if (is_kept_away()) sched_setaffinity(0, sizeof usual_, &usual_);
    CPU_ZERO(&others_);
#endif
  }

  // Called by the thread that will wake it.
  void keep_away() {
#ifdef __linux__
    if (!is_asleep_) return;
    const int here = sched_getcpu();
    if (!is_kept_away()) usual_ = now_;
    others_ = usual_;
    if (here < 0 || here >= CPU_SETSIZE) return;
    CPU_CLR(here, &others_);
    if (CPU_COUNT(&others_) != 0) sched_setaffinity(thread_, sizeof others_, &others_);
#endif
  }

 private:
  bool is_asleep_ = false;
#ifdef __linux__
  // Whether its processors are those that it was left. Somebody may have set others since.
  bool is_kept_away() {
    CPU_ZERO(&now_);
    const bool is_known = sched_getaffinity(thread_, sizeof now_, &now_) == 0;
    return is_known && CPU_COUNT(&others_) != 0 && CPU_EQUAL(&now_, &others_);
  }

  pid_t thread_ = 0;
  cpu_set_t usual_ = {}, others_ = {}, now_ = {};
#endif
};

struct Job {
  RunningCall* call;
  ParallelBody body;
  void* context;
  int64_t count, grain, chunks;
};

int32_t run_chunk(const Job& job, Call* call, int64_t chunk) {
  int64_t begin = chunk * job.grain;
  return job.body(call, job.context, begin, std::min(job.count, begin + job.grain));
}

int32_t run_alone(const Job& job) {
  for (int64_t chunk = 0; chunk < job.chunks; ++chunk) {
    int32_t status = run_chunk(job, job.call, chunk);
    if (status == kDone && chunk + 1 < job.chunks) status = job.call->poll();
    if (status != kDone) return status;
  }
  return kDone;
}

}  // namespace

// One job at a time. Its remaining chunks are encoded in one word, so that a chunk is claimed by a
// single compare-and-swap, and only while there is one left: a worker that slept since the last job
// finds the next one, or nothing. The job does not change until all its chunks are done, by
// whichever thread: nobody waits for workers that did not join.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Run a job on this many threads, including the calling one. False if another call is using the
  // pool.
  bool run(const Job& job, int32_t threads, int32_t& status) {
    if (is_taken_.exchange(true, std::memory_order_acquire)) return false;
    make_workers(threads - 1);
    job_ = job;
    done_.store(0, std::memory_order_relaxed);
    failed_chunk_.store(job.chunks, std::memory_order_relaxed);
    status_ = kDone;
    uint32_t helpers = static_cast<uint32_t>(
        std::min<int64_t>({threads - 1, made_.load(std::memory_order_relaxed), job.chunks - 1}));
    word_.store(Word{++epoch_, helpers, static_cast<uint32_t>(job.chunks)}.packed());
    wake(helpers);
    work(nullptr, epoch_ & kEpochs);
    wait_until_done();
    status = status_;
    if (status != kDone) *job.call->fault = fault_;
    is_taken_.store(false, std::memory_order_release);
    return true;
  }

  int32_t workers() const { return made_.load(std::memory_order_relaxed); }

 private:
  // The number of unclaimed chunks, and how many workers may still join.
  struct Word {
    uint32_t epoch, seats, left;
    uint64_t packed() const {
      return static_cast<uint64_t>(epoch) << 40 | static_cast<uint64_t>(seats) << 32 | left;
    }
    static Word of(uint64_t packed) {
      return {static_cast<uint32_t>(packed >> 40), static_cast<uint32_t>(packed >> 32 & 0xff),
              static_cast<uint32_t>(packed)};
    }
    bool has_room() const { return seats > 0 && left > 0; }
  };
  static constexpr uint32_t kEpochs = (1u << 24) - 1;
  static_assert(kMostThreads <= 0xff && kMostChunks <= 0xffffffff);

  // Claim chunks of one job until none is left. Each worker has its own `Call`.
  void work(RunningCall* own, uint32_t epoch) {
    is_inside = true;
    for (;;) {
      uint64_t packed = word_.load(std::memory_order_acquire);
      Word word;
      do {
        word = Word::of(packed);
        if (word.left == 0 || word.epoch != epoch) {
          is_inside = false;
          return;
        }
        --word.left;
      } while (!word_.compare_exchange_weak(packed, word.packed(), std::memory_order_acq_rel,
                                            std::memory_order_acquire));
      // The job stays valid until this chunk is done.
      int64_t ended = 1;
      int64_t chunks = job_.chunks, chunk = chunks - 1 - word.left;
      if (chunk < failed_chunk_.load(std::memory_order_acquire)) {
        RunningCall* call = own == nullptr ? job_.call : own;
        if (own != nullptr) own->help(*job_.call);
        int32_t status = run_chunk(job_, call, chunk);
        if (status == kDone && own == nullptr) status = job_.call->poll();
        if (status != kDone) {
          fail(chunk, status, *call);
          ended += claim_the_rest();
        }
      }
      if (done_.fetch_add(ended) + ended == chunks && waits_.load()) {
        std::lock_guard<std::mutex> lock(mutex_);
        is_done_.notify_one();
      }
    }
  }

  // Claim all remaining chunks of the current job; return how many.
  int64_t claim_the_rest() {
    uint64_t packed = word_.load(std::memory_order_acquire);
    Word rest;
    do {
      rest = Word::of(packed);
      rest.left = 0;
    } while (!word_.compare_exchange_weak(packed, rest.packed(), std::memory_order_acq_rel));
    return Word::of(packed).left;
  }

  // Chunks are claimed in order: those before this one run to completion, and may fail first.
  void fail(int64_t chunk, int32_t status, const RunningCall& call) {
    std::lock_guard<std::mutex> lock(failure_mutex_);
    if (chunk >= failed_chunk_.load(std::memory_order_relaxed)) return;
    failed_chunk_.store(chunk, std::memory_order_release);
    status_ = status;
    fault_ = *call.fault;
  }

  void wait_until_done() {
    for (int look = 0; look < kLooks; ++look) {
      if (done_.load(std::memory_order_acquire) == job_.chunks) return;
      pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    waits_.store(true);
    is_done_.wait(lock, [this] { return done_.load() == job_.chunks; });
    waits_.store(false);
  }

  void wake(uint32_t helpers) {
    if (sleepers_.load() == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (Placement* worker : placements_) {
        if (worker != nullptr) worker->keep_away();
      }
    }
    for (uint32_t i = 0; i < helpers; ++i) has_work_.notify_one();
  }

  // Join the current job, and return its epoch; false if there is none.
  bool join(uint32_t& epoch) {
    uint64_t packed = word_.load();
    for (;;) {
      Word word = Word::of(packed);
      if (!word.has_room()) return false;
      --word.seats;
      epoch = word.epoch;
      if (word_.compare_exchange_weak(packed, word.packed())) return true;
    }
  }

  bool join_soon(uint32_t& epoch) {
    for (int look = 0; look < kLooks; ++look) {
      if (Word::of(word_.load(std::memory_order_relaxed)).has_room() && join(epoch)) return true;
      pause();
    }
    return false;
  }

  void help_for_ever() {
    static const std::vector<PythonCallback> none;
    RunningCall own(none);
    Placement placement;
    placement.begin();
    register_worker(&placement);
    for (;;) {
      uint32_t epoch;
      while (!join_soon(epoch)) {
        std::unique_lock<std::mutex> lock(mutex_);
        placement.sleep();
        sleepers_.fetch_add(1);
        has_work_.wait(lock, [this] { return Word::of(word_.load()).has_room(); });
        sleepers_.fetch_sub(1);
        placement.awake();
      }
      work(&own, epoch);
    }
  }

  // With more workers none is kept away from anywhere.
  void register_worker(Placement* placement) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (started_ < Placement::kMostWorkers) placements_[started_] = placement;
    else std::fill(std::begin(placements_), std::end(placements_), nullptr);
    ++started_;
  }

  void make_workers(int32_t wanted) {
    if (made_.load(std::memory_order_relaxed) >= wanted) return;
    // A thread inherits the signal mask of the thread that creates it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    while (made_.load(std::memory_order_relaxed) < wanted) {
      auto run = [](void* pool) -> void* {
        static_cast<Pool*>(pool)->help_for_ever();
        return nullptr;
      };
      pthread_t thread;
      if (pthread_create(&thread, &detached, run, this) != 0) break;
#ifdef __linux__
      pthread_setname_np(thread, "kiln");
#endif
      made_.fetch_add(1, std::memory_order_relaxed);
    }
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  alignas(64) std::atomic<uint64_t> word_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  std::atomic<bool> waits_{false};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> is_taken_{false};
  std::atomic<int32_t> made_{0};
  std::atomic<int64_t> failed_chunk_{0};
  Job job_{};
  int32_t status_ = kDone;
  Fault fault_{};
  uint32_t epoch_ = 0;
  Placement* placements_[Placement::kMostWorkers] = {};
  int started_ = 0;
  std::mutex mutex_, failure_mutex_;
  std::condition_variable has_work_, is_done_;
};

namespace {

// Never destroyed: its workers may be running when the process ends.
std::atomic<Pool*> pool{nullptr};

// The child of a fork has none of the threads, but the locks that they held.
void forget_pool() { pool.store(nullptr); }

PyObject* limit_threads(PyObject*, PyObject* given) {
  long threads = PyLong_AsLong(given);
  if (threads < 0 && PyErr_Occurred()) return nullptr;
  if (threads < 0) {
    PyErr_SetString(PyExc_ValueError, "a number of threads is at least 1, or 0 for the default");
    return nullptr;
  }
  chosen_threads.store(static_cast<int32_t>(std::min<long>(threads, kMostThreads)));
  Py_RETURN_NONE;
}

PyObject* num_threads(PyObject*, PyObject*) { return PyLong_FromLong(threads_in_use()); }

PyObject* pool_workers(PyObject*, PyObject*) {
  Pool* found = pool.load();
  return PyLong_FromLong(found == nullptr ? 0 : found->workers());
}

PyMethodDef functions[] = {
    {"limit_threads", limit_threads, METH_O,
     "Set how many threads compiled code uses; 0: as many as there are processors for it."},
    {"num_threads", num_threads, METH_NOARGS,
     "Return how many threads compiled code uses in calls of this thread."},
    {"pool_workers", pool_workers, METH_NOARGS,
     "Return how many threads were made to help with calls."},
    {nullptr},
};

const Symbols symbols{{"kiln_parallel", reinterpret_cast<void*>(run_in_parallel)}};

}  // namespace

Pool* current_pool() {
  Pool* found = pool.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  Pool* made = new Pool();
  if (pool.compare_exchange_strong(found, made)) return made;
  delete made;
  return found;
}

int32_t threads_in_use() {
  int32_t threads = thread_state.threads;
  if (threads == 0) threads = chosen_threads.load(std::memory_order_relaxed);
  if (threads == 0) threads = processors();
  return std::clamp(threads, 1, kMostThreads);
}

int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                        int64_t grain) {
  if (count <= 0) return kDone;
  grain = std::max<int64_t>(grain, 1);
  while ((count - 1) / grain >= kMostChunks) grain *= 2;
  RunningCall* running = static_cast<RunningCall*>(call);
  Job job{running, body, context, count, grain, (count - 1) / grain + 1};
  if (job.chunks == 1) return body(call, context, 0, count);
  int32_t threads = call->pool == nullptr || is_inside ? 1 : running->threads();
  int32_t status;
  // A call may continue in the child of a fork, where the pool it started with has no threads.
  if (threads > 1 && current_pool()->run(job, threads, status)) return status;
  return run_alone(job);
}

// Exported, because threadpoolctl recognizes the library by it.
extern "C" __attribute__((visibility("default"))) int kiln_num_threads() {
  return threads_in_use();
}

int add_pool(PyObject* module) {
  pthread_atfork(nullptr, nullptr, forget_pool);
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
