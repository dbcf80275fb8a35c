//! File formats, read and written as streams: memory stays bounded whatever the file's size.
