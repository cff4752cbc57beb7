# Writes the C++ source of page_files.h: each file of the folder as a raw string literal.
#   cmake -DFOLDER=... -DOUTPUT=... -P embed_files.cmake
set(DELIMITER "baton_page")
set(TYPE_html "text/html; charset=utf-8")
set(TYPE_css "text/css; charset=utf-8")
set(TYPE_js "text/javascript; charset=utf-8")

file(GLOB NAMES RELATIVE ${FOLDER} ${FOLDER}/*)
list(REMOVE_ITEM NAMES index.html)
list(SORT NAMES)
set(ENTRIES "")
foreach(NAME index.html ${NAMES})
  set(PATH "/page/${NAME}")
  if(NAME STREQUAL "index.html")
    set(PATH "/")
  endif()
  string(REGEX REPLACE "^.*\\." "" EXTENSION ${NAME})
  if(NOT DEFINED TYPE_${EXTENSION})
    message(FATAL_ERROR "${FOLDER}/${NAME}: give its content type a line in embed_files.cmake")
  endif()
  file(READ ${FOLDER}/${NAME} BODY)
  string(FIND "${BODY}" ")${DELIMITER}\"" END)
  if(NOT END EQUAL -1)
    message(FATAL_ERROR "${FOLDER}/${NAME}: it contains the end of the literal that it is compiled into")
  endif()
  file(SHA256 ${FOLDER}/${NAME} HASH)
  string(SUBSTRING ${HASH} 0 32 TAG)
  string(APPEND ENTRIES "    {\"${PATH}\", \"${TYPE_${EXTENSION}}\",\n     R\"${DELIMITER}(${BODY})${DELIMITER}\", \"\\\"${TAG}\\\"\"},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made by router/page/embed_files.cmake from router/page/files.
#include \"router/page/page_files.h\"

namespace baton {
namespace {

constexpr PageFile kFiles[] = {
${ENTRIES}};

}  // namespace

absl::Span<const PageFile> PageFiles() { return kFiles; }

}  // namespace baton
")
