# cmake -DINPUT=index.html -DOUTPUT=web_page.cpp -P embed.cmake
# Writes the file as a byte array: a string literal has a length limit in some compilers and an escaping problem in all.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "#include \"api/web_page.h\"\n\nnamespace weir::api {\nnamespace {\nconst unsigned char kPage[] = {${bytes}};\n}\n\n"
  "std::string_view web_page() { return {reinterpret_cast<const char*>(kPage), sizeof(kPage)}; }\n\n}  // namespace weir::api\n")
