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

// How often a worker polls for work before it sleeps: about 300 microseconds. A program has serial
// parts of this length, and is called again after less; a worker that sleeps takes as long to wake
// as a convolution of a small image takes.
constexpr int kLooks = 6000;

constexpr int32_t kMostThreads = 128;

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

// The chunks of a job that one of its threads runs, in a word: it takes them from the front, others
// that have finished theirs from the back. So successive loops over the same arrays find them in
// the cache of the processor that wrote them.
class Share {
 public:
  void set(uint32_t epoch, int64_t begin, int64_t end) {
    word_.store(Word{epoch, begin, end}.packed(), std::memory_order_relaxed);
  }
  // Returns the next chunk; -1 if there is none, or no longer such a job.
  int64_t take(uint32_t epoch, bool is_own) {
    uint64_t packed = word_.load(std::memory_order_acquire);
    for (;;) {
      Word word = Word::of(packed);
      if (word.epoch != epoch || word.begin == word.end) return -1;
      const int64_t taken = is_own ? word.begin++ : --word.end;
      if (word_.compare_exchange_weak(packed, word.packed(), std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        return taken;
      }
    }
  }

 private:
  struct Word {
    uint32_t epoch;
    int64_t begin, end;
    uint64_t packed() const {
      return static_cast<uint64_t>(epoch) << 40 | static_cast<uint64_t>(begin) << 20 |
             static_cast<uint64_t>(end);
    }
    static Word of(uint64_t packed) {
      return {static_cast<uint32_t>(packed >> 40), static_cast<int64_t>(packed >> 20) & kMostChunks,
              static_cast<int64_t>(packed) & kMostChunks};
    }
  };
  alignas(64) std::atomic<uint64_t> word_{0};
};

// One job at a time. A chunk is claimed by a single compare-and-swap, of a word that says which job
// it belongs to: a worker that slept since the last job finds the next one, or nothing. The job
// does not change until all its chunks are done, by whichever thread: nobody waits for workers that
// did not join.
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
    const uint32_t helpers = static_cast<uint32_t>(
        std::min<int64_t>({threads - 1, made_.load(std::memory_order_relaxed), job.chunks - 1}));
    epoch_ = (epoch_ + 1) & kEpochs;
    for (uint32_t i = 0; i <= helpers; ++i) {
      shares_[i].set(epoch_, job.chunks * i / (helpers + 1), job.chunks * (i + 1) / (helpers + 1));
    }
    open_.store(Opening{epoch_, helpers, helpers}.packed());
    wake(helpers);
    work(nullptr, {epoch_, helpers, 0});
    wait_until_done();
    open_.store(Opening{epoch_, helpers, 0}.packed(), std::memory_order_relaxed);
    status = status_;
    if (status != kDone) *job.call->fault = fault_;
    is_taken_.store(false, std::memory_order_release);
    return true;
  }

  int32_t workers() const { return made_.load(std::memory_order_relaxed); }

 private:
  // A job that workers may join: how many may help, and how many of them have not joined. The last
  // to join has the first share after that of the calling thread.
  struct Opening {
    uint32_t epoch, helpers, seats;
    uint64_t packed() const { return static_cast<uint64_t>(epoch) << 16 | helpers << 8 | seats; }
    static Opening of(uint64_t packed) {
      return {static_cast<uint32_t>(packed >> 16), static_cast<uint32_t>(packed >> 8 & 0xff),
              static_cast<uint32_t>(packed & 0xff)};
    }
  };
  static constexpr uint32_t kEpochs = (1u << 24) - 1;
  static_assert(kMostThreads <= 0xff);

  // Which job a thread works for, and which share is its own.
  struct Place {
    uint32_t epoch, helpers, own;
  };

  int64_t take(const Place& place) {
    const uint32_t shares = place.helpers + 1;
    for (uint32_t i = 0; i < shares; ++i) {
      const int64_t taken = shares_[(place.own + i) % shares].take(place.epoch, i == 0);
      if (taken >= 0) return taken;
    }
    return -1;
  }

  // Run chunks of one job until none is left. Each worker has its own `Call`.
  void work(RunningCall* own, const Place& place) {
    is_inside = true;
    for (int64_t chunk = take(place); chunk >= 0; chunk = take(place)) {
      // The job stays valid until this chunk is done.
      const int64_t chunks = job_.chunks;
      if (chunk < failed_chunk_.load(std::memory_order_acquire)) {
        RunningCall* call = own == nullptr ? job_.call : own;
        if (own != nullptr) own->help(*job_.call);
        int32_t status = run_chunk(job_, call, chunk);
        if (status == kDone && own == nullptr) status = job_.call->poll();
        // Python code that raised, or an interrupt, ends all of them.
        if (status != kDone) fail(status == kRaised ? -1 : chunk, status, *call);
      }
      if (done_.fetch_add(1) + 1 == chunks && waits_.load()) {
        std::lock_guard<std::mutex> lock(mutex_);
        is_done_.notify_one();
      }
    }
    is_inside = false;
  }

  // Of several chunks that fail the first counts: those before it still run.
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

  // Join the current job; false if there is none.
  bool join(Place& place) {
    uint64_t packed = open_.load(std::memory_order_relaxed);
    for (;;) {
      Opening opening = Opening::of(packed);
      if (opening.seats == 0) return false;
      place = {opening.epoch, opening.helpers, opening.seats};
      --opening.seats;
      if (open_.compare_exchange_weak(packed, opening.packed())) return true;
    }
  }

  bool join_soon(Place& place) {
    for (int look = 0; look < kLooks; ++look) {
      if (join(place)) return true;
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
      Place place;
      while (!join_soon(place)) {
        std::unique_lock<std::mutex> lock(mutex_);
        placement.sleep();
        sleepers_.fetch_add(1);
        has_work_.wait(lock, [this] { return Opening::of(open_.load()).seats > 0; });
        sleepers_.fetch_sub(1);
        placement.awake();
      }
      work(&own, place);
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

  alignas(64) std::atomic<uint64_t> open_{0};
  Share shares_[kMostThreads];
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

int32_t threads_of(Call* call) {
  const bool is_alone = call == nullptr || call->pool == nullptr || is_inside;
  return is_alone ? 1 : static_cast<RunningCall*>(call)->threads();
}

int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                        int64_t grain) {
  if (count <= 0) return kDone;
  const Chunks chunks(count, grain);
  RunningCall* running = static_cast<RunningCall*>(call);
  Job job{running, body, context, count, chunks.grain, chunks.count};
  if (job.chunks == 1) return body(call, context, 0, count);
  const int32_t threads = threads_of(call);
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
