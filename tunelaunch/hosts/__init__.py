"""The only files that know SGLang's and FlashInfer's names. Each private name is touched here, behind a probe."""
