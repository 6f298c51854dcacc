// The decode worker of JPEG XL, still images and animations, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.jxl.main()
