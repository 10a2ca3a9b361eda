//! The documents' own numbers, for comparison with the measured ones.

use std::collections::BTreeMap;

use serde::Deserialize;

const DATA: &str = include_str!("../data/documents.toml");

/// All numbers with their sources.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Documents {
    documents: BTreeMap<String, Document>,
    number: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    cite: String,
}

/// One number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Number {
    document: String,
    /// Figure, section, page.
    pub(crate) place: String,
    experiments: Vec<String>,
    /// The measured quantity.
    pub(crate) what: String,
    /// Its value.
    pub(crate) value: String,
}

impl Documents {
    /// Parses the numbers that are built into this program.
    pub(crate) fn read() -> Result<Self, String> {
        toml::from_str(DATA).map_err(|error| format!("the documents' numbers: {error}"))
    }

    /// Returns the numbers for an experiment, with the document's citation.
    pub(crate) fn of<'a>(
        &'a self,
        experiment: &'a str,
    ) -> impl Iterator<Item = (&'a Number, &'a str)> {
        let belongs = move |number: &&Number| number.experiments.iter().any(|of| of == experiment);
        self.number.iter().filter(belongs).map(|number| {
            let document = self.documents.get(&number.document);
            (number, document.map_or("", |document| &document.cite))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Documents;

    #[test]
    fn every_number_has_its_document_and_place() {
        let documents = Documents::read().expect("well-formed");
        assert!(documents.number.len() > 20);
        for number in &documents.number {
            assert!(
                documents.documents.contains_key(&number.document),
                "{}",
                number.what
            );
            assert!(!number.place.is_empty() && !number.value.is_empty());
            assert!(!number.experiments.is_empty());
        }
        let (number, cite) = documents.of("timestamp").next().expect("one at least");
        assert!(number.value.contains("1,800") && cite.contains("2003"));
    }
}
