// Fails two calls below the node. A test reads the position of the failure: line 8, column 10.

export function broken(input) {
  return inner(input.missing);
}

function inner(it) {
  return it.name;
}
