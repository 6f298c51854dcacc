import ImageDecoding

/// A JPEG XL of 8 × 8 pixels with alpha, written by `cjxl -d 1`, because this program has no encoder.
let smallJXL = [UInt8](
    hexadecimal: """
        ff0a41c086e24200488028000402cde3120000152aa38c1bbc9cebf9f24387c5b48deb0c6db56d6149e21899b792035e1dbcc041
        925804ac83151060bf1b00a04961a81c08290c95032185a17220a430540e841486ca8190c250391052182a07420a43e540607e13
        bef3ece7fb2a4924e5f94ef6eedf3689a225e8fae7fbf974cf4e07a30090e3653fa6a4aab72c02
        """)
