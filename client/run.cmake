# The part of idempotency::client that speaks to the service: Run, and connections.
target_sources(idempotency_client PRIVATE
  src/acquire.cc
  src/client.cc
  src/environment.cc
  src/held_attempt.cc
  src/renewal_timer.cc
  src/report.cc
  src/retry.cc
  src/run.cc
  src/unprotected_attempt.cc)
target_sources(idempotency_client PUBLIC
  FILE_SET HEADERS FILES
  include/idempotency/testing/fake_environment.h
  include/idempotency/testing/mock_connection.h)
target_link_libraries(idempotency_client PRIVATE
  absl::cleanup absl::synchronization Threads::Threads)
