# A folder of src/ is a room: one static library weft_NAME of every .c file in it. weft_room(NAME ROOM...) names the rooms that it
# may include, which all stand before it in WEFT_ROOMS. Its compiler finds no other.

# A room includes only rooms that stand before it. ib and direct do not know each other.
set(WEFT_ROOMS base wire multipath verbs ib direct mgmt fabric agents sm impair link control remap peers runtime abi weftd cli)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# JSON, for weft and weftd. What goes into programs has none of it.
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET GLOBAL jansson)
add_library(weft_jansson INTERFACE)
if(WEFT_STATIC_LIBRARIES)
  find_library(JANSSON_ARCHIVE libjansson.a REQUIRED)
  target_include_directories(weft_jansson INTERFACE ${JANSSON_INCLUDE_DIRS})
  target_link_libraries(weft_jansson INTERFACE ${JANSSON_ARCHIVE})
else()
  target_link_libraries(weft_jansson INTERFACE PkgConfig::JANSSON)
endif()

# SQLite, for weftd alone: what takes other parts of weft_weftd has none of it.
pkg_check_modules(SQLITE REQUIRED sqlite3)
add_library(weft_sqlite INTERFACE)
target_include_directories(weft_sqlite INTERFACE ${SQLITE_INCLUDE_DIRS})
if(WEFT_STATIC_LIBRARIES)
  find_library(SQLITE_ARCHIVE libsqlite3.a REQUIRED)
  target_link_libraries(weft_sqlite INTERFACE ${SQLITE_ARCHIVE} m ${CMAKE_DL_LIBS} Threads::Threads)
else()
  target_link_directories(weft_sqlite INTERFACE ${SQLITE_LIBRARY_DIRS})
  target_link_libraries(weft_sqlite INTERFACE -Wl,--push-state,--as-needed,-lsqlite3,--pop-state)
endif()

# weft --version and reports name the commit, which must be today's: looked up by every build, written when it is another.
set(commit_dir ${PROJECT_BINARY_DIR}/commit)
add_custom_target(weft_commit_file BYPRODUCTS ${commit_dir}/commit.h VERBATIM
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D HEADER=${commit_dir}/commit.h -D "GIVEN=${WEFT_COMMIT}"
    -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)

# weft_names_commit(TARGET): its files may include commit.h.
function(weft_names_commit target)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/commit)
  add_dependencies(${target} weft_commit_file)
endfunction()

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes
  -Wmissing-prototypes -Wno-unused-parameter -fno-common -fno-semantic-interposition
  $<$<NOT:$<CONFIG:Debug>>:-O2> $<$<CONFIG:Debug>:-DWEFT_DEBUG=1>)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE WEFT_VERSION="${PROJECT_VERSION}")
# Tests and benchmarks may look everywhere.
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/include
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:WEFT_ROOM>>>:${PROJECT_SOURCE_DIR}/src>)
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

# The library that programs load is optimised as one piece. Its rooms have machine code beside that, for the tests.
set(weft_lto_compile)
set(weft_lto_link)
if(WEFT_LTO AND CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT CMAKE_BUILD_TYPE STREQUAL Debug AND NOT WEFT_ASAN AND NOT WEFT_TSAN)
  set(weft_lto_compile -flto -ffat-lto-objects)
  set(weft_lto_link -flto -flto-partition=one)
  target_link_options(weft_flags INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:WEFT_LTO>>>:-fno-lto>)
endif()

# weft_includes(TARGET OWN ROOM...): what the files of this target, in the folder OWN, may include. Their compiler searches
# rooms/TARGET of the build directory, which has a link to each.
function(weft_includes target own)
  string(REGEX REPLACE "/.*" "" own_room ${own})
  list(FIND WEFT_ROOMS ${own_room} last)
  foreach(room ${ARGN})
    string(REGEX REPLACE "/.*" "" used ${room})
    list(FIND WEFT_ROOMS ${used} place)
    if(place LESS 0 OR place GREATER_EQUAL last AND NOT used STREQUAL own_room)
      message(FATAL_ERROR "src/${own} may not include src/${room}: see WEFT_ROOMS")
    endif()
  endforeach()
  set(tree ${PROJECT_BINARY_DIR}/rooms/${target})
  file(GLOB links ${tree}/* ${tree}/abi/*)
  foreach(link ${links})
    if(IS_SYMLINK ${link})
      file(REMOVE ${link})
    endif()
  endforeach()
  foreach(room ${own} ${ARGN})
    get_filename_component(folder ${tree}/${room} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${room} ${tree}/${room} SYMBOLIC)
  endforeach()
  set_target_properties(${target} PROPERTIES WEFT_ROOM TRUE)
  target_include_directories(${target} PRIVATE ${tree})
endfunction()

function(weft_room name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  add_library(weft_${name} STATIC ${sources})
  target_link_libraries(weft_${name} PUBLIC weft_flags)
  target_compile_options(weft_${name} PRIVATE ${weft_lto_compile})
  weft_includes(weft_${name} ${name} ${ARGN})
  foreach(dep ${ARGN})
    target_link_libraries(weft_${name} PUBLIC weft_${dep})
  endforeach()
endfunction()
