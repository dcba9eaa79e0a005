# How targets are made: one static library and one test program per layer (folder) of src/.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

# Warnings are errors for our own code; Debian's headers come in as system headers.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)

if(SLUICE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC takes moved-from std::expected for uninitialized once a sanitizer is in its way.
  target_compile_options(sluice_warnings INTERFACE -Wno-maybe-uninitialized)
endif()

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It takes a source inside a unit for a header, where what a file keeps to itself would not do.
  target_compile_options(sluice_warnings INTERFACE -Wno-subobject-linkage)
endif()

# Bit equality must not hang on which multiply-adds a compiler chooses to fuse.
add_compile_options(-ffp-contract=off)

if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
  if(SLUICE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  add_compile_definitions(SLUICE_SANITIZED=1)
endif()

# What nearly every source includes, compiled once per target: half of a build would go into it.
set(sluice_common_headers <fmt/format.h> <filesystem> <functional> <memory> <string> <vector>)

# sluice_layer(NAME DEPENDENCY...): src/NAME/*.cc becomes the library sluice_NAME.
# What a layer may link is what it may include; scripts/check-layers holds the includes to it.
function(sluice_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc
       ${CMAKE_SOURCE_DIR}/src/${name}/*/*.cc)
  if(NOT sources)
    add_library(sluice_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(sluice_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(sluice_${name} PRIVATE sluice_warnings)
    if(name STREQUAL kernels)  # its sources are compiled once per target of the processor
      set_target_properties(sluice_kernels PROPERTIES UNITY_BUILD OFF)
    else()
      target_precompile_headers(sluice_${name} PRIVATE ${sluice_common_headers})
    endif()
  endif()
  target_include_directories(sluice_${name} ${scope}
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(sluice_${name} ${scope} ${ARGN})
endfunction()

# The program as tests start it; across architectures that takes an emulator.
set(sluice_program ${CMAKE_BINARY_DIR}/sluice)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(sluice_program ${CMAKE_BINARY_DIR}/sluice-emulated)
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  file(CONFIGURE OUTPUT ${sluice_program} @ONLY NEWLINE_STYLE UNIX
       CONTENT "#!/bin/sh\nexec @emulator@ @CMAKE_BINARY_DIR@/sluice \"$@\"\n")
  file(CHMOD ${sluice_program} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endif()

# sluice_layer_tests(NAME): tests/NAME/*_test.cc becomes one program test_NAME, to be run in the
# source folder.
function(sluice_layer_tests name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  set(library sluice_${name})
  if(name STREQUAL cli)
    set(library sluice_engine)
  endif()
  target_link_libraries(test_${name} PRIVATE ${library} sluice_warnings GTest::gtest_main
    nlohmann_json::nlohmann_json)
  # Tests run once for each time that they are built: what counts is how long the build takes.
  target_compile_options(test_${name} PRIVATE -O0)
  target_precompile_headers(test_${name} PRIVATE ${sluice_common_headers} <gtest/gtest.h>
    <nlohmann/json.hpp>)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  # Relative, and so the same in every checkout: compiler caches share what they compile.
  file(RELATIVE_PATH program ${CMAKE_SOURCE_DIR} ${sluice_program})
  target_compile_definitions(test_${name} PRIVATE
    SLUICE_SOURCE_DIR="." SLUICE_PROGRAM="${program}")
  if(name STREQUAL cli AND TARGET sluice)
    add_dependencies(test_cli sluice)  # its tests run the program
  endif()
  # A sanitizer or an emulator holds memory in the process that no budget is to count.
  if(SLUICE_SANITIZE OR CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(test_${name} PRIVATE SLUICE_MEMORY_OF_OTHERS=1)
  endif()
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()
