"""Hugging Face's transformers, imported when it is first needed."""

import logging

_ADVICE = "PyTorch was not found"


def import_transformers():
  """The module, without its advice to install PyTorch.

  Only its tokenizers and files are used here, which need no PyTorch. All else
  that it has to say is heard.
  """
  logger = logging.getLogger("transformers")
  logger.addFilter(_is_no_advice)
  try:
    import transformers
  finally:
    logger.removeFilter(_is_no_advice)
  return transformers


def _is_no_advice(record: logging.LogRecord) -> bool:
  return not record.getMessage().startswith(_ADVICE)
