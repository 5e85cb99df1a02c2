# What every test finds in its environment.
set(IDEMPOTENCY_TEST_ENVIRONMENT
  IDEMPOTENCY_SOURCE_DIR=${PROJECT_SOURCE_DIR}
  IDEMPOTENCYD=${IDEMPOTENCY_BIN_DIR}/idempotencyd
  IDEMPOTENCYCTL=${IDEMPOTENCY_BIN_DIR}/idempotencyctl
  PYTHONDONTWRITEBYTECODE=1)

# Sanitizers: reports with names and lines, and the first one ends the test.
find_program(LLVM_SYMBOLIZER NAMES llvm-symbolizer-14 llvm-symbolizer)
mark_as_advanced(LLVM_SYMBOLIZER)
if(IDEMPOTENCY_SANITIZE MATCHES "address")
  list(APPEND IDEMPOTENCY_TEST_ENVIRONMENT
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:external_symbolizer_path=${LLVM_SYMBOLIZER}
    LSAN_OPTIONS=print_suppressions=0:suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.txt
    UBSAN_OPTIONS=print_stacktrace=1:external_symbolizer_path=${LLVM_SYMBOLIZER})
endif()
if(IDEMPOTENCY_SANITIZE MATCHES "thread")
  # RocksDB and absl are not instrumented: what happens inside them is not reported.
  list(APPEND IDEMPOTENCY_TEST_ENVIRONMENT
    TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:external_symbolizer_path=${LLVM_SYMBOLIZER})
endif()
