// The decode worker of JPEG 2000, which the broker starts when such a file is requested.

import ImageDecoding

DecodeProgram.jp2.main()
