# idempotency::client: what a C++ service links. It needs no part of the service.

# The profiles of the providers, compiled in, so that no file has to be found at run time.
set(IDEMPOTENCY_PROVIDER_TEXTS "")
foreach(name
    adyen
    no-idempotency-support
    paypal
    shopify-graphql
    square
    stripe-v1
    stripe-v2)
  set(contract ${CMAKE_CURRENT_SOURCE_DIR}/contracts/${name}.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${contract})
  file(READ ${contract} text)
  string(APPEND IDEMPOTENCY_PROVIDER_TEXTS "      R\"json(${text})json\",\n")
endforeach()
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/src/provider_data.cc.in
  ${CMAKE_CURRENT_BINARY_DIR}/provider_data.cc @ONLY)

add_library(idempotency_client STATIC
  ${CMAKE_CURRENT_BINARY_DIR}/provider_data.cc
  src/classification.cc
  src/fingerprint.cc
  src/fingerprint_proto.cc
  src/framed_hash.cc
  src/http_edge.cc
  src/http_key_field.cc
  src/json_canonical.cc
  src/json_number.cc
  src/json_parser.cc
  src/json_pointer.cc
  src/keys.cc
  src/policies.cc
  src/proto_canonical.cc
  src/proto_unknown.cc
  src/provider_parser.cc
  src/providers.cc
  src/refusal.cc
  src/system_environment.cc
  src/types.cc
  src/utf8.cc)
add_library(idempotency::client ALIAS idempotency_client)
target_sources(idempotency_client PUBLIC
  FILE_SET HEADERS BASE_DIRS include FILES
  include/idempotency/classification.h
  include/idempotency/client.h
  include/idempotency/connection.h
  include/idempotency/fingerprint.h
  include/idempotency/fingerprint_proto.h
  include/idempotency/http_edge.h
  include/idempotency/keys.h
  include/idempotency/policies.h
  include/idempotency/providers.h
  include/idempotency/types.h)
target_link_libraries(idempotency_client
  PUBLIC idempotency::protos absl::any_invocable absl::status absl::statusor
  PRIVATE $<BUILD_INTERFACE:idempotency_options> OpenSSL::Crypto absl::cord absl::strings absl::time)
