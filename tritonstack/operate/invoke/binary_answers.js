// JSON cannot hold the outputs: the answer is a JSON header, and then the bytes of each output.
const view = new DataView(answer.Body.buffer, answer.Body.byteOffset, answer.Body.byteLength);
const float16 = (bits) => {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, (bits & 1023) / 1024];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction) : sign * 2 ** -14 * fraction;
};
const bfloat16 = (bits) => new Float32Array(new Uint32Array([bits << 16]).buffer)[0];
const types = {
  BOOL: [1, (at) => view.getUint8(at) === 1],
  INT8: [1, (at) => view.getInt8(at)],
  UINT8: [1, (at) => view.getUint8(at)],
  INT16: [2, (at) => view.getInt16(at, true)],
  UINT16: [2, (at) => view.getUint16(at, true)],
  INT32: [4, (at) => view.getInt32(at, true)],
  UINT32: [4, (at) => view.getUint32(at, true)],
  INT64: [8, (at) => view.getBigInt64(at, true)],
  UINT64: [8, (at) => view.getBigUint64(at, true)],
  FP16: [2, (at) => float16(view.getUint16(at, true))],
  BF16: [2, (at) => bfloat16(view.getUint16(at, true))],
  FP32: [4, (at) => view.getFloat32(at, true)],
  FP64: [8, (at) => view.getFloat64(at, true)],
};
const text = (begin, end) => new TextDecoder().decode(answer.Body.subarray(begin, end));
const size = Number(/json-header-size=([0-9]+)/.exec(answer.ContentType)[1]);
let at = size;
for (const { name, datatype, shape, parameters } of JSON.parse(text(0, size)).outputs) {
  const values = [];
  for (const end = at + parameters.binary_data_size; at < end; ) {
    if (datatype === "BYTES") {
      const length = view.getUint32(at, true);
      values.push(text(at + 4, at + 4 + length));
      at += 4 + length;
    } else {
      values.push(types[datatype][1](at));
      at += types[datatype][0];
    }
  }
  console.log(name, datatype, shape, values);
}
