# Options and the flags that every target gets.
option(LITHE_BUILD_TESTS "Build the tests" ON)
option(LITHE_BUILD_BENCH "Build the micro-benchmarks" OFF)
option(LITHE_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
option(LITHE_WERROR "Treat warnings as errors" ON)
option(LITHE_SANITIZE_KERNELS "Instrument the kernels too: minutes of compiling (address sanitizer only)" OFF)
set(LITHE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(LITHE_CCACHE ccache)
if(LITHE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LITHE_CCACHE})
endif()

# -ffp-contract=off: a multiply and an add become one FMA only where a kernel says so. Otherwise the
# compiler decides per loop, and the same row could round differently alone and in a batch (promise 1).
add_library(lithe_flags INTERFACE)
target_compile_options(lithe_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lithe_flags INTERFACE -Wno-restrict)  # GCC 12: false alarms on std::string (bug 105329)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # A vector file may have nothing to compile for some target: its attribute region is empty there.
  target_compile_options(lithe_flags INTERFACE -Wno-pragma-clang-attribute)
endif()
if(LITHE_WERROR)
  target_compile_options(lithe_flags INTERFACE -Werror)
endif()
if(LITHE_SANITIZE)
  target_compile_options(lithe_flags INTERFACE -fsanitize=${LITHE_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(lithe_flags INTERFACE -fsanitize=${LITHE_SANITIZE})
endif()
if(LITHE_BUILD_FUZZERS)
  # No fuzzer reaches the kernels: counting their branches would only cost compile time.
  target_compile_options(lithe_flags INTERFACE
    $<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:NAME>,lithe_kernels>>:-fsanitize=fuzzer-no-link>)
endif()
