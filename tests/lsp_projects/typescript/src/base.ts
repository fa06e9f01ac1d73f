/** Something with an area. */
export interface Shape {
  area(): number;
}

/** Four equal sides. */
export class Square implements Shape {
  constructor(private side: number) {}

  area(): number {
    return this.side * this.side;
  }
}

/** The area of all. */
export function total(shapes: Shape[]): number {
  return shapes.reduce((sum, shape) => sum + shape.area(), 0);
}
