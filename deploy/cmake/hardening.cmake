# What makes a memory error in our binaries end the process instead of being of use to somebody.
# tests/e2e/hardening_test.py looks for each of these in the release binaries. Not with sanitizers,
# which find the same errors first and do not get on with some of it.
option(IDEMPOTENCY_HARDEN "Harden every binary (no effect with IDEMPOTENCY_SANITIZE)" ON)

if(IDEMPOTENCY_HARDEN AND NOT IDEMPOTENCY_SANITIZE)
  include(CheckCXXCompilerFlag)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)

  # Checked copies need an optimising compiler: glibc warns where it is none.
  add_compile_options(
    -fstack-protector-strong "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  # Where compiler and processor have them: probes for every page of a large frame, and marks on
  # where indirect calls and returns may go.
  foreach(flag -fstack-clash-protection -fcf-protection=full)
    string(MAKE_C_IDENTIFIER "IDEMPOTENCY_HAVE${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      add_compile_options(${flag})
    endif()
  endforeach()
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()
