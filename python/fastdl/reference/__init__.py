"""The specification as plain array-API code: the same names as the public families, and the fallback for them.

These functions run on any library that array-api-compat knows. They take arrays that are already of one library,
device and dtype, and check nothing: the public functions do.
"""
