"""Which steps a kernel gets unless somebody says otherwise."""
