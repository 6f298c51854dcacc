@testable import ImageDecoding
@testable import imgworker

#if !WITHOUT_AVIF
    @testable import imgworker_avif
#endif
#if !WITHOUT_HEIF
    @testable import imgworker_heif
#endif
#if !WITHOUT_JP2
    @testable import imgworker_jp2
#endif
#if !WITHOUT_JXL
    @testable import imgworker_jxl
#endif
#if !WITHOUT_SVG
    @testable import imgworker_svg
#endif
#if !WITHOUT_TIFF
    @testable import imgworker_tiff
#endif
#if !WITHOUT_BMP
    @testable import imgworker_bmp
#endif

/// The codecs of all families of this build.
let allCodecs: [ImageCodec] = {
    var codecs = DecodeProgram.plain.codecs
    #if !WITHOUT_AVIF
        codecs += DecodeProgram.avif.codecs
    #endif
    #if !WITHOUT_HEIF
        codecs += DecodeProgram.heif.codecs
    #endif
    #if !WITHOUT_JXL
        codecs += DecodeProgram.jxl.codecs
    #endif
    #if !WITHOUT_SVG
        codecs += DecodeProgram.svg.codecs
    #endif
    #if !WITHOUT_TIFF
        codecs += DecodeProgram.tiff.codecs
    #endif
    #if !WITHOUT_BMP
        codecs += DecodeProgram.bmp.codecs
    #endif
    #if !WITHOUT_JP2
        codecs += DecodeProgram.jp2.codecs
    #endif
    return codecs
}()
