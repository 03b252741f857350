# A folder of src/ is a room: one static library weft_NAME of every .c file in it.
# weft_room(NAME ROOM...) names the rooms it may include, which all stand above it in the list of DESIGN.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes
  -Wmissing-prototypes -Wno-unused-parameter -fno-common -fno-semantic-interposition
  $<$<NOT:$<CONFIG:Debug>>:-O2> $<$<CONFIG:Debug>:-DWEFT_DEBUG=1>)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE WEFT_VERSION="${PROJECT_VERSION}")
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(WEFT_ASAN)
  target_compile_options(weft_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(weft_flags INTERFACE -fsanitize=address,undefined)
endif()
if(WEFT_TSAN)
  target_compile_options(weft_flags INTERFACE -fsanitize=thread)
  target_link_options(weft_flags INTERFACE -fsanitize=thread)
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(weft_flags INTERFACE -fsanitize=address,undefined)
endif()

function(weft_room name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  if(NOT sources)
    add_library(weft_${name} INTERFACE)
    foreach(dep ${ARGN})
      target_link_libraries(weft_${name} INTERFACE weft_${dep})
    endforeach()
    return()
  endif()
  add_library(weft_${name} STATIC ${sources})
  target_link_libraries(weft_${name} PUBLIC weft_flags)
  foreach(dep ${ARGN})
    target_link_libraries(weft_${name} PUBLIC weft_${dep})
  endforeach()
endfunction()
