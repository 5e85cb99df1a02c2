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
