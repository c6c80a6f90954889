"""What generated source calls: types, maths, warps, tensor units."""
