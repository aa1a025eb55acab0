// What the statements of instrumented programs cost.

#include <ctime>

#include "abi/native_call.h"
#include "abi/symbols.h"

namespace kiln {
namespace {

// Memory that the engine owns: counters, then four numbers per statement, then events. Calls on
// several threads write to it concurrently.
struct Measurements {
  int64_t statements;  // how many there are
  int64_t room;        // capacity, in events
  int64_t events;      // how many occurred; those beyond the capacity were dropped
  int64_t rest[];

  // How often it ran, and its total nanoseconds, bytes and operations.
  int64_t* of(int64_t statement) { return rest + 4 * statement; }
  // The statement, its start, its end, its bytes and operations.
  int64_t* event(int64_t number) { return of(statements) + 5 * number; }
};

int64_t kiln_clock() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Returns the time, when the next statement starts.
int64_t kiln_measured(Measurements* to, int64_t statement, int64_t start, int64_t bytes,
                      int64_t operations) {
  int64_t end = kiln_clock();
  // A statement inside a loop has too many events.
  bool is_event = statement >= 0;
  if (!is_event) statement = ~statement;
  int64_t* figures = to->of(statement);
  const int64_t more[] = {1, end - start, bytes, operations};
  for (int64_t each : more) __atomic_fetch_add(figures++, each, __ATOMIC_RELAXED);
  if (!is_event) return end;
  int64_t number = __atomic_fetch_add(&to->events, 1, __ATOMIC_RELAXED);
  if (number >= to->room) return end;
  int64_t* event = to->event(number);
  event[0] = statement;
  event[1] = start;
  event[2] = end;
  event[3] = bytes;
  event[4] = operations;
  return end;
}

const Symbols symbols{
    {"kiln_clock", reinterpret_cast<void*>(kiln_clock)},
    {"kiln_measured", reinterpret_cast<void*>(kiln_measured)},
};

}  // namespace
}  // namespace kiln
