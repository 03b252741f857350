# Writes HEADER with the commit that is GIVEN, or with that of SOURCE, when it differs.
cmake_minimum_required(VERSION 3.18)
set(commit "${GIVEN}")
if(NOT commit)
  # a checkout of something else above SOURCE does not count
  get_filename_component(above ${SOURCE}/.. REALPATH)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${above} git -C ${SOURCE} describe --always --dirty
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    set(commit "no commit known")
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define WEFT_COMMIT \"@commit@\"\n" @ONLY)
