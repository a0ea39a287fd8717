"""Stores: backends that keep ledgers, all behind the contract of :mod:`chatsnapshot.stores.base`."""
