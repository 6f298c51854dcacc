// The decode worker of TIFF, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.tiff.main()
