# What can be chosen, and what every target of ours is compiled with.
option(IDEMPOTENCY_BUILD_SERVICE "Build key store and service (needs RocksDB)" ON)
set(IDEMPOTENCY_SANITIZE "" CACHE STRING "Sanitizers for our own targets, as in -fsanitize= (empty: none)")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Warnings, the include root and sanitizers, from one place. Generated code does not use it.
add_library(idempotency_options INTERFACE)
target_include_directories(idempotency_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(idempotency_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(idempotency_options INTERFACE -Wthread-safety)
endif()
if(IDEMPOTENCY_SANITIZE)
  target_compile_options(idempotency_options INTERFACE
    -fsanitize=${IDEMPOTENCY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(idempotency_options INTERFACE -fsanitize=${IDEMPOTENCY_SANITIZE})
endif()
