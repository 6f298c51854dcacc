// Written by scripts/warm-up-samples.py.

import ImageDecoding

/// Images of 16 × 16 pixels, one for each decoder.
enum WarmUpSamples {
    /// All samples.
    static let all = [jpeg, png, lossyWebP, losslessWebP]

    /// JPEG with subsampled chroma.
    static let jpeg = [UInt8](
        hexadecimal: """
            ffd8ffe000104a46494600010100000100010000ffdb004300281c1e231e19282321232d2b28303c64413c37373c7b585d496491
            8099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fdfff8ffdb0043012b2d2d3c353c76414176
            f8a58ca5f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8
            f8f8ffc00011080010001003012200021101031101ffc4001500010100000000000000000000000000000403ffc4001710000301
            0000000000000000000000000000036102ffc4001501010100000000000000000000000000000103ffc400171100030100000000
            00000000000000000000010312ffda000c03010002110311003f000613046130bad3052d308a7a18d8ffd9
            """)

    /// PNG with alpha.
    static let png = [UInt8](
        hexadecimal: """
            89504e470d0a1a0a0000000d49484452000000100000001008060000001ff3ff610000006749444154789ca5cc370e80301004c0
            35989cfcff5f9233a6424288707714d38e02600d00290d0300ca4a9d026793b804eeca7513e885e321f066aa97c09f283e8260fc
            4208c2e10d3188fa278c20eeee3083a4bd12046973260cb2faf023c82b20af7e0645b903a1f9e41df40275130000000049454e44
            ae426082
            """)

    /// Lossy WebP.
    static let lossyWebP = [UInt8](
        hexadecimal: """
            5249464642000000574542505650382036000000d001009d012a1000100005407c25b0027400cef017470000feeedea13cae208c
            fd55eab7f7b0d4a8e6f2db0f737dba4dda4bde000000
            """)

    /// Lossless WebP.
    static let losslessWebP = [UInt8](
        hexadecimal: """
            5249464632000000574542505650384c250000002f0fc00310993244f43f36f5af7ff43f40a46d5309f76f78f074202660fe2700
            ac4e5cff0100
            """)
}
