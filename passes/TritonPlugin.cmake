# The settings of the plugin for Triton's own process.
#
# XESMITH_TRITON  the package folder of an installed triton 3.9.0, .../site-packages/triton
# XESMITH_LLVM    a folder that holds Debian's clang-23, libmlir-23-dev and llvm-23-dev, unpacked
# CMAKE_CXX_COMPILER must be clang: Triton's wheels are built with it, and type ids of another
# compiler differ, so that matchers never match.
set(XESMITH_TRITON_VERSION "3.9.0")
set(llvm "${XESMITH_LLVM}/usr/lib/llvm-23")

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "the plugin for Triton needs clang, not ${CMAKE_CXX_COMPILER_ID}")
endif()
foreach(file IN ITEMS "${XESMITH_TRITON}/include/triton/Version.h"
                      "${llvm}/include/mlir/IR/Operation.h")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "the plugin for Triton needs ${file}: set XESMITH_TRITON and XESMITH_LLVM")
  endif()
endforeach()
# Nothing promises that another release has the same classes: not even a patch release is taken.
file(STRINGS "${XESMITH_TRITON}/include/triton/Version.h" found REGEX "TRITON_VERSION \"")
if(NOT found MATCHES "\"${XESMITH_TRITON_VERSION}\"")
  message(FATAL_ERROR "the plugin is for Triton ${XESMITH_TRITON_VERSION}, "
                      "${XESMITH_TRITON} says: ${found}")
endif()

# Triton's LLVM has these checks on, Debian's has them off; they change the layout of classes.
set(header "llvm/Config/abi-breaking.h")
file(READ "${XESMITH_LLVM}/usr/include/llvm-23/${header}" text)
string(REPLACE "LLVM_ENABLE_ABI_BREAKING_CHECKS 0" "LLVM_ENABLE_ABI_BREAKING_CHECKS 1" changed
               "${text}")
if(changed STREQUAL text)
  message(FATAL_ERROR "${header} is not as expected: its checks could not be turned on")
endif()
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/shim/${header}" "${changed}")

# The names of the passes, which become those of functions in Python.
file(STRINGS include/XeSmith/Passes.td definitions REGEX "^def .*: Pass<")
set(names "")
foreach(definition IN LISTS definitions)
  string(REGEX REPLACE "^.*Pass<\"([a-z0-9-]+)\".*$" "\\1" argument "${definition}")
  string(REPLACE "-" "_" name "${argument}")
  string(APPEND names "XESMITH_PASS(\"${argument}\", \"${name}\")\n")
endforeach()
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/include/XeSmith/PassNames.inc" "${names}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/XeSmith/Passes.td)

file(STRINGS "${PROJECT_SOURCE_DIR}/pyproject.toml" xesmith_version REGEX "^version = ")
string(REGEX REPLACE "^version = \"(.*)\"$" "\\1" xesmith_version "${xesmith_version}")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
add_compile_options(-fno-rtti -fno-exceptions)
include_directories(SYSTEM "${CMAKE_CURRENT_BINARY_DIR}/shim" "${XESMITH_TRITON}/include"
                    "${XESMITH_LLVM}/usr/include/llvm-23" "${llvm}/include")
