# What can be chosen, and what every target of ours is compiled with.
option(BUILD_TESTING "Build the tests" ON)
option(IDEMPOTENCY_BUILD_SERVICE "Build key store and service (needs RocksDB)" ON)
option(IDEMPOTENCY_BUILD_GRPC "Build what speaks gRPC: protos, service and client" ON)
set(IDEMPOTENCY_SANITIZE "" CACHE STRING
  "Sanitizers for our own targets, as in -fsanitize= (empty: none)")
# Off for those who only build it: their compiler may warn of more than those that we know.
option(IDEMPOTENCY_WARNINGS_AS_ERRORS "Warnings end the build; the presets set it" OFF)
set(IDEMPOTENCY_BIN_DIR ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} CACHE PATH
  "Where the end-to-end tests find idempotencyd and idempotencyctl")

# Headers of targets with a header file set (core, client) must compile alone.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ${BUILD_TESTING})

# Whatever was compiled in one clone is taken up in the next (base directory, prefix map below).
# pch_defines, time_macros: without them ccache passes over what uses a precompiled header.
find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)

# Warnings, the include root and sanitizers, from one place. Generated code does not use it.
add_library(idempotency_options INTERFACE)
target_include_directories(idempotency_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(idempotency_options INTERFACE
  -Wall -Wextra $<$<BOOL:${IDEMPOTENCY_WARNINGS_AS_ERRORS}>:-Werror> -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Without the time stamp a precompiled header is the same bytes each time, as ccache needs.
  target_compile_options(idempotency_options INTERFACE -Wthread-safety "SHELL:-Xclang -fno-pch-timestamp")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld IDEMPOTENCY_HAVE_LLD)
  if(IDEMPOTENCY_HAVE_LLD)
    target_link_options(idempotency_options INTERFACE -fuse-ld=lld)
  endif()
endif()
if(IDEMPOTENCY_SANITIZE)
  target_compile_options(idempotency_options INTERFACE
    -fsanitize=${IDEMPOTENCY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(idempotency_options INTERFACE -fsanitize=${IDEMPOTENCY_SANITIZE})
endif()
