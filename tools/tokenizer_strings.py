"""What the tokenizer tests train on, and what their strings are put together from."""

CORPUS = """
The weir holds the river at a level; it decides how much flows and when. That is the whole trick, isn't it?
We've opened 3 gates in 2024, they'll close 12 more by 1999-12-31. I'm sure you'd agree: it's 100% right!
Water, water everywhere, and all the boards did shrink; water, water everywhere, nor any drop to drink.
def flow(gate, level=3.14): return [x ** 2 for x in range(10) if x % 2 == 0]  # comment
Der Fluß fließt über das Wehr, während die Mühle schläft. Größe, Übermut, naïve Café-Besucher déjà vu.
Река течёт через плотину и шумит. Ποταμός και νερό. नदी का पानी बहता है। นํ้าไหลลงแม่น้ำ
水は堰を越えて流れる。川的水从堰上流过。강물이 둑을 넘어 흐른다. مياه النهر تجري. הנהר זורם
HTTPServer camelCase PascalCase SCREAMING_CASE snake_case kebab-case x86_64 iPhone15Pro
"""

# Pieces that random strings are put together from: what split patterns, normalisation and byte handling stumble over.
PIECES = [
    " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", " \n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\u200d", "\ufeff",
    "a", "b", "the", "The", "weir", "water", "river", "HTTP", "camelCase", "aB", "Ab", "x", "Z", "é", "ß", "ü", "Ü", "ñ",
    "e\u0301", "E\u0301", "a\u0323\u0301", "a\u0301\u0323", "\u0301", "\u0323", "\u0345", "ö", "o\u0308", "\u212b", "\u2126", "\u1e9b\u0323",
    "1", "2", "12", "123", "1234", "3.14", "\u0663", "\u0967", "\u00bd", "\u2160", "\u00b2", "\u3007", "\u2460", "\U0001d7d8",
    "'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'LL", "'d", "'", "\u2019s", "'\u017f", "'x",
    ".", ",", "!", "?", "...", "-", "--", "_", "/", "//", "\\", "(", ")", "[", "]", "{", "}", "<", ">", "=", "+", "*", "&", "%", "$", "#", "@",
    "~", "`", "^", "|", "\"", ";", ":", "\u2014", "\u201c", "\u00a1", "\u20ac", "\u00a9", "\u2581", "\u2581\u2581", "\u2581a",
    "\u4e2d", "\u6c34", "\u3042", "\u30ab", "\u30fb", "\uac00", "\u1100\u1161\u11a8", "\u1100\u1161", "\u0e01", "\u0e33", "\u0e19\u0e49", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0644\u0627", "\u05d0\u05b0",
    "\u01c5", "\u01c8", "\u02b0", "\u00aa", "\u2c7c", "\u10d0", "\u10a0", "\U00010400", "\U00010428",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\ufe0f", "\U0001ccd6", "\U00010d4e", "\U00010d40", "\u1c89", "\ua7cb",
    "\U000113c2\U000113c2", "\U00016d68\U00016d67", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\0", "\x01", "\x7f", "\x1b",
    "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|im_", "|im_end|", "<mask>", "<pad>", "<tool>", "</tool>", "<0x41>", "<0x0A>", "[X]", "[XY]", "ok", "\u00d6l",
]

# The library's normalizers know an older Unicode than its patterns: new compositions and new case pairs.
NEWER_THAN_NORMALIZERS = "\U000113c2\U00016d67\U00016d68\u1c89\ua7cb"
