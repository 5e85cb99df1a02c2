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
  src/testing/ledger_entry.cc)
add_library(idempotency::testing ALIAS idempotency_testing)
target_sources(idempotency_testing PUBLIC
  FILE_SET HEADERS BASE_DIRS include FILES
  include/idempotency/testing/in_process_connection.h)
target_link_libraries(idempotency_testing
  PUBLIC idempotency::client
  PRIVATE idempotency_options absl::strings absl::synchronization absl::time)
