# The part of idempotency::client that speaks to the service: Run, and connections.

# What every channel is made with, compiled in like the profiles of the providers.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/service_config.json)
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/service_config.json IDEMPOTENCY_SERVICE_CONFIG)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/src/service_config.cc.in
  ${CMAKE_CURRENT_BINARY_DIR}/service_config.cc @ONLY)

target_sources(idempotency_client PRIVATE
  ${CMAKE_CURRENT_BINARY_DIR}/service_config.cc
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
