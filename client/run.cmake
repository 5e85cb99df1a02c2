# The part of idempotency::client that speaks to the service: Run, and connections.
target_sources(idempotency_client PRIVATE
  src/acquire.cc
  src/client.cc
  src/connection.cc
  src/convert.cc
  src/environment.cc
  src/grpc_connection.cc
  src/held_attempt.cc
  src/local_target.cc
  src/pipeline.cc
  src/pipelined_connection.cc
  src/renewal_timer.cc
  src/report.cc
  src/retry.cc
  src/run.cc
  src/status.cc
  src/unprotected_attempt.cc
  src/wires.cc)
target_sources(idempotency_client PUBLIC
  FILE_SET HEADERS FILES
  include/idempotency/testing/fake_environment.h
  include/idempotency/testing/mock_connection.h)
target_compile_definitions(idempotency_client PRIVATE IDEMPOTENCY_VERSION="${PROJECT_VERSION}")
target_link_libraries(idempotency_client PRIVATE
  idempotency_error_details absl::cleanup absl::synchronization Threads::Threads)
