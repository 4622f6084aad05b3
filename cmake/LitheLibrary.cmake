# lithe_library(NAME SOURCES ... [DEPS ...]): one static library per folder of src/.
# DEPS name lower floors (or third-party targets); tools/check_layers proves that the includes agree.
function(lithe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(lithe_${name} STATIC ${ARG_SOURCES})
  add_library(lithe::${name} ALIAS lithe_${name})
  target_include_directories(lithe_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:include>)
  target_link_libraries(lithe_${name} PRIVATE $<BUILD_INTERFACE:lithe_flags> PUBLIC ${ARG_DEPS})
  set_target_properties(lithe_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY LITHE_LIBRARIES lithe_${name})
endfunction()

# lithe_test(NAME SOURCES ... DEPS ... [LABELS ...]): one GoogleTest program, run by ctest as a whole.
function(lithe_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lithe_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE LITHE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
  # Tests are compiled more often than run.
  target_compile_options(${name} PRIVATE -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)  # at -O1 it does not see through std::optional
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()

# lithe_fuzzer(NAME SOURCES ... DEPS ...): a libFuzzer program; its corpus lies in tests/fuzz/corpus/NAME.
# Without libFuzzer the same entry point is linked to a main() that replays the corpus, so that
# every build runs it.
function(lithe_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lithe_flags ${ARG_DEPS})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(LITHE_BUILD_FUZZERS)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=0 ${corpus})
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz)
endfunction()
