# What idempotency::client has for gRPC, on both sides of a call.
target_sources(idempotency_client PRIVATE
  src/grpc/cached_message.cc
  src/grpc/metadata.cc
  src/grpc/run_status.cc
  src/grpc/run_unary.cc
  src/grpc/server_guard.cc
  src/grpc/status_details.cc
  src/grpc/worker_pool.cc)
target_sources(idempotency_client PUBLIC
  FILE_SET HEADERS FILES
  include/idempotency/grpc.h)

# The test kit: idempotency::testing stands in for the service in tests of its callers.
add_library(idempotency_testing STATIC
  src/testing/in_process_connection.cc
  src/testing/ledger.cc
  src/testing/ledger_entry.cc
  src/testing/retry_review.cc
  src/testing/review_scenario.cc
  src/testing/review_scenarios.cc
  src/testing/review_world.cc)
add_library(idempotency::testing ALIAS idempotency_testing)
target_sources(idempotency_testing PUBLIC
  FILE_SET HEADERS BASE_DIRS include FILES
  include/idempotency/testing/in_process_connection.h
  include/idempotency/testing/retry_review.h)
target_link_libraries(idempotency_testing
  PUBLIC idempotency::client
  PRIVATE $<BUILD_INTERFACE:idempotency_options> absl::strings absl::synchronization absl::time Threads::Threads)
