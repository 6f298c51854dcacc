// The decode worker of BMP, icons, PNM, QOI and TGA, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.bmp.main()
