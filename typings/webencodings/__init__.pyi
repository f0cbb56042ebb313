from codecs import CodecInfo

class Encoding:
    name: str
    codec_info: CodecInfo

def lookup(label: str) -> Encoding | None: ...
