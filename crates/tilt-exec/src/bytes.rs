//! State as bytes, little-endian on every machine.

/// Bytes that are written one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, number: i64) {
        self.word(number as u64);
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.word(count as u64);
    }

    pub(crate) fn words(&mut self, words: &[u64]) {
        self.count(words.len());
        for word in words {
            self.word(*word);
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Bytes that are read one after the other; `None` where there are too few.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(crate) fn number(&mut self) -> Option<i64> {
        self.word().map(|word| word as i64)
    }

    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok()
    }

    pub(crate) fn words(&mut self) -> Option<Vec<u64>> {
        let words = self.count()?;
        // Memory is taken for words that are there.
        if words > self.0.len() / 8 {
            return None;
        }
        (0..words).map(|_| self.word()).collect()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
