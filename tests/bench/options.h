// What a run of the load generator is: the flags, as one value.
#ifndef IDEMPOTENCY_TESTS_BENCH_OPTIONS_H_
#define IDEMPOTENCY_TESTS_BENCH_OPTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/bench/wire.h"

namespace idempotency::bench {

enum class Api : uint8_t { kUnary, kBatch, kPipeline, kClient };

// What one operation of the load is, and what has to be there before.
enum class Mix : uint8_t {
  kReserve,     // a fresh key: ACQUIRED
  kLifecycle,   // a fresh key: ACQUIRED, then Complete
  kReplay,      // a completed key: COMPLETED with the body
  kGet,         // GetOperation of a completed key: with the body
  kInProgress,  // a key that another attempt holds: IN_PROGRESS
  kHot,         // many callers want one key: one acquires and completes, the others wait for it
};

struct Options {
  std::string target = "127.0.0.1:7420";
  Api api = Api::kUnary;
  Mix mix = Mix::kReserve;
  int in_flight = 64;   // calls; with the Pipeline, messages; with the client, calling threads
  int connections = 4;  // and, with the Pipeline, streams
  int threads = 1;      // of the load generator
  int commands = 32;    // a message of Batch and Pipeline
  double rate = 0;      // operations a second; 0: closed loop
  int tick_us = 100;    // open loop: starts are looked for this often at most
  double seconds = 5;
  double warmup_seconds = 1;
  uint64_t operations = 0;  // exactly so many, without warm-up, instead of `seconds`
  uint64_t keys = 10'000;   // that are brought in before: replay, get, in_progress
  uint64_t first_key = 0;
  uint64_t hot_keys = 1;
  uint64_t scopes = 1000;
  uint64_t seed = 0;
  bool prefill = true;
  bool echo = false;
  bool batching = true;  // of the client
  RequestShape shape;
  pid_t server_pid = 0;
  std::string json;
  std::string label;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_OPTIONS_H_
