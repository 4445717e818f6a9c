# Filters of jq, written in jq. They take the place of those of the same name and the same number
# of arguments that jaq brings.

# Values
def isboolean: type == "boolean";
def isnumber: type == "number";
def isstring: type == "string";
def isarray: type == "array";
def isobject: type == "object";
def isfinite: isnumber and (isinfinite | not);
def objects: select(isobject);
def iterables: select(isarray or isobject);
def scalars: select((isarray or isobject) | not);
def normals: select(isnumber and isnormal);
def toarray: if isarray then . else [.] end;
def in($container): . as $key | $container | has($key);
def inside($container): . as $part | $container | contains($part);
def index($part): indices($part) | .[0];
def rindex($part): indices($part) | .[-1:] | .[0];
def ascii: [.] | implode;
def have_literal_numbers: true;
def have_decnum: false;

# Lists and objects
def flatten: flatten(infinite);
def transpose: . as $rows | [range(0; [$rows[] | length] | max // 0) as $at | [$rows[][$at]]];
def combinations: if length == 0 then [] else .[0][] as $first | [$first] + (.[1:] | combinations) end;
def combinations($count): . as $items | [range($count) | $items] | combinations;
def from_entries:
  def name: if .key != null then .key elif .k != null then .k elif .name != null then .name
    elif .Name != null then .Name elif .Key != null then .Key elif .K != null then .K else null end;
  def content: if has("value") then .value elif has("v") then .v elif has("Value") then .Value else .V end;
  def written: if isstring then . elif . == null then "null" elif isnumber or isboolean then tojson else . end;
  reduce .[] as $entry ({}; . + {($entry | if isobject then name else . end | written): ($entry | content)});
def to_entries: [keys_unsorted[] as $key | {key: $key, value: .[$key]}];
def with_entries(change): to_entries | map(change) | from_entries;
def walk(change): def walked: if isarray then map(walked) elif isobject then map_values(walked) else . end | change; walked;
def map_values(change): .[] |= change;
def IN(items): . as $item | any(items; . == $item);
def IN(source; items): any(source; IN(items));
def INDEX(items; key): reduce items as $item ({}; .[$item | key | tostring] = $item);
def INDEX(key): INDEX(.[]; key);
def JOIN($index; key): [.[] | [., $index[key]]];
def JOIN($index; items; key): items | [., $index[key]];
def JOIN($index; items; key; joined): items | [., $index[key]] | joined;

# Paths
def del(paths): delpaths([path(paths)]);
def paths: path(..) | select(length > 0);
def paths(test): path(.. | select(test)) | select(length > 0);
def leaf_paths: paths(scalars);
def pick(paths): . as $whole | reduce path(paths) as $path (null; setpath($path; $whole | getpath($path)));
def tostream: path(def below: (.[]? | below), .; below) as $path | getpath($path)
  | reduce path(.[]?) as $key ([$path, .]; [$path + $key]);
def fromstream(events):
  foreach events as $event ({};
    (if .done then {} else . end)
    | ($event[0] | length) as $depth
    | if $event | length == 2 then setpath(["value"] + $event[0]; $event[1]) | .done = ($depth == 0)
      else .done = ($depth == 1) end;
    if .done then .value else empty end);
def truncate_stream(events): . as $depth | events | select((.[0] | length) > $depth) | .[0] |= .[$depth:];

# Outputs
def nth($at; outputs): if $at < 0 then error("nth doesn't support negative indices") else first(skip($at; outputs)) end;
def range($upto): range(0; $upto; 1);
def range($from; $upto): range($from; $upto; 1);
def isvalid(outputs): try (outputs | true) catch false;

# Texts and patterns
def test($pattern): if $pattern | isarray then test($pattern[0]; $pattern[1]) else test($pattern; null) end;
def match($pattern): if $pattern | isarray then match($pattern[0]; $pattern[1]) else match($pattern; null) end;
def capture($pattern): if $pattern | isarray then capture($pattern[0]; $pattern[1]) else capture($pattern; null) end;
def scan($pattern): if $pattern | isarray then scan($pattern[0]; $pattern[1]) else scan($pattern; null) end;
def splits($pattern): split($pattern; null) | .[];
def splits($pattern; flags): split($pattern; flags) | .[];
def sub($pattern; text): sub($pattern; text; null);
def gsub($pattern; text): gsub($pattern; text; null);

# Times
def date: todate;
def dateadd($unit; $count): . + $count;
def datesub($unit; $count): . - $count;
