# weir_library(kv SOURCES a.cpp b.cpp DEPS base tensor LIBS fmt::fmt)   -> target weir_kv, from src/kv
# weir_test(kv block_pool_test.cpp ...)                                 -> one test program of station kv per file
#
# ThreadSanitizer finds nothing where there is one thread: of stations that start none its build has no unit tests, but for
# those in weir_threaded_test(text chat_template_test.cpp ...), which start some themselves.
#
# tests/layering reads the DEPS lists: they are the dependency graph of the program.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(WEIR_TESTS)
  find_package(GTest REQUIRED)
endif()

add_library(weir_options INTERFACE)
target_include_directories(weir_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(weir_options INTERFACE -Wall -Wextra -Werror
  # Rounding is part of the contract (same request, same bytes): no contraction or reassociation behind our back.
  -ffp-contract=off -fno-math-errno
  # Designated initialisers that leave members at their defaults are how calls name their arguments here.
  -Wno-missing-field-initializers
  # g++ 12 sees an overflow in fmt 9's width parser that is not there.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
target_link_libraries(weir_options INTERFACE fmt::fmt Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # std::stable_sort of libstdc++ 12 uses what the same library calls deprecated; g++ says nothing inside its own headers.
  target_compile_options(weir_options INTERFACE -Wno-deprecated-declarations)
endif()
if(WEIR_SANITIZE)
  # Instrumented code makes g++ 12 warn of uninitialised values that are not; the release build holds the warnings to be errors.
  target_compile_options(weir_options INTERFACE -fsanitize=${WEIR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-error)
  target_link_options(weir_options INTERFACE -fsanitize=${WEIR_SANITIZE})
endif()
if(WEIR_FUZZ)
  target_compile_options(weir_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

include(cmake/compile_together.cmake)

function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(weir_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(weir_${name} PUBLIC weir_options ${ARG_LIBS})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(weir_${name} PUBLIC weir_${dep})
  endforeach()
  if(WEIR_FILES_AT_ONCE GREATER 1)
    weir_compile_together(weir_${name})
  endif()
endfunction()

set(WEIR_STATIONS_WITH_THREADS base backend engine api driver)

function(weir_test station)
  if(WEIR_TESTS AND (NOT WEIR_SANITIZE MATCHES "thread" OR station IN_LIST WEIR_STATIONS_WITH_THREADS))
    weir_threaded_test(${station} ${ARGN})
  endif()
endfunction()

function(weir_threaded_test station)
  if(NOT WEIR_TESTS)
    return()
  endif()
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weir_${station} GTest::gtest GTest::gtest_main)
    target_compile_definitions(${name} PRIVATE WEIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    if(WEIR_SANITIZE MATCHES "undefined")
      # These checks of a test program's own pointers are a third of the time that it takes to compile; a bad pointer is
      # AddressSanitizer's to find as well, and the libraries keep them.
      target_compile_options(${name} PRIVATE -fno-sanitize=null,alignment,object-size,vptr)
    endif()
    add_test(NAME ${WEIR_TEST_PREFIX}${station}/${name} COMMAND ${name})
    # The long ones begin first (and those of tests/): else one core waits for the last of them.
    set(cost 1)
    if(name MATCHES "^(every_op|attention|linear|theory|silicon|kernel_speeds)_test$")
      set(cost 100)
    endif()
    set_tests_properties(${WEIR_TEST_PREFIX}${station}/${name} PROPERTIES TIMEOUT 600 COST ${cost})
  endforeach()
endfunction()
