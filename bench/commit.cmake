# Writes HEADER with the commit of SOURCE, when it differs.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "no commit known")
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define WEFT_COMMIT \"@commit@\"\n" @ONLY)
