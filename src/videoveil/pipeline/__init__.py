"""Videos through an anonymizer: files, folders, streams. Whatever goes wrong, no raw frame comes out."""
