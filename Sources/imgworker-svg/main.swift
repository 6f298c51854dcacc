// The decode worker of SVG, which the broker starts when such a file is requested.

import CSVGDecoder
import ImageDecoding

codec_svg_limit_threads()
DecodeProgram.svg.main()
